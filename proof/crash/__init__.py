"""Kill -9 at random moments: what was acknowledged as durable must be there afterwards."""
