"""Running programs under observation: preloading, output folders, the results of captures, and the doctor."""
