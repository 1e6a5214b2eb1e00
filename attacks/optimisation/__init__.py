"""How attacks minimise, whatever the equation: where a search starts, how it descends, and how restarts are pooled."""
