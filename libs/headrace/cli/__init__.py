"""The command line: what people type, on top of `headrace.client`."""
