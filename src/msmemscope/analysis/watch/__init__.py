"""Who overwrote watched memory."""
