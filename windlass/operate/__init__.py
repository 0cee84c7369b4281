"""What operators and workers ask and order: listings, schedules, notices, reasons, orders."""
