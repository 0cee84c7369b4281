"""A shop's order pipeline that survives failures, a poisonous job and a killed worker, and proves it at the end."""
