"""The kubelet's gRPC messages, as far as the plugin uses them, and the modules generated from them."""
