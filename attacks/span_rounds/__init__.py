"""More searches after the first, in which the candidates that keep to the spans stay and the others begin anew."""
