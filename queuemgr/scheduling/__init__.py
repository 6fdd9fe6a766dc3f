"""What may start now and why the rest waits: limits, rates, breakers and the pure decision."""
