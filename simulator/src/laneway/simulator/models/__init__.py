"""How fast jobs get on. The protocol is in ``speed_model``; every other file is one model."""
