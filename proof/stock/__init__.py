"""Stock clients on the appliance of two heads: the pause that they see while the pool moves or its head crashes."""
