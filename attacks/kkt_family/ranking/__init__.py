"""Which candidates are right, as far as an attacker can tell: by agreement, by the evidence, by what twins taught."""
