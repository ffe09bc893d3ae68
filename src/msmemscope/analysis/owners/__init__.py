"""What memory is made of."""
