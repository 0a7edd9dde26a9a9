"""One file a kind of observation, all of one shape: `read(observation, contract=, earlier=, now=) -> Reading`."""
