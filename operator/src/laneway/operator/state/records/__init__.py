"""What the operator keeps of each object that it watches: parsed once when it arrives, frozen, and no more than is used."""
