"""Dispatches task runs to HTTP services, and takes the reports of those services.

Workers dispatch what comes by message, the tick what waits in a serverless deployment; the API hands reports
in, and dispatches the step after a report. Every result is stored by the one turn of the engine. This room
must never hold a row lock while it waits for a service or for storage, and must never send anything to an
address that the settings do not allow.
"""

from pipeweave.orchestrator.dispatch.addresses import address_of
from pipeweave.orchestrator.dispatch.dispatcher import Dispatcher
from pipeweave.orchestrator.dispatch.next_steps import stop
from pipeweave.orchestrator.dispatch.report import Report
from pipeweave.orchestrator.dispatch.reports import ReportReceiver

__all__ = [
    "Dispatcher",
    "Report",
    "ReportReceiver",
    "address_of",
    "stop",
]
