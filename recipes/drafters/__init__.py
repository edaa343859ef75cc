"""What the recipes share: drafter modules, block inputs and proposals, optimiser and trainer."""
