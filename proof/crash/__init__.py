"""Kill -9 at random times: writes that were acknowledged as durable must survive."""
