"""A shop whose orders can be followed from the HTTP request through every job they set off.

Two processes, from the root of the repository:

    uvicorn examples.traced_shop.web:api
    windlass worker examples.traced_shop.jobs:app

Then press the button at http://localhost:8000 and follow the links: to the job in the dashboard, and from there to its
trace. ``/jobs/metrics`` is for Prometheus.
"""
