"""Running programs under observation: preloading, output folders, what becomes of captures, and the doctor."""
