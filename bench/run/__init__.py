"""How a run is executed: victims trained, attacks isolated, reconstructions stored and scored."""
