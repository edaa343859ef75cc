"""One module or package per producer: from its config keys and tensors to a contract."""
