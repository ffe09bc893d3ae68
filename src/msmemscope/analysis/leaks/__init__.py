"""Memory that is not given back: over steps, between marks, of the driver, and slowly."""
