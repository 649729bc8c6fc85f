"""Documents, links, passages, vectors and indexes: everything that is stored.

All other packages import this one first, so it is also where the libraries are kept from sending usage
statistics, before any of them is imported.
"""

import os
import sys
import types

os.environ |= {
    "DO_NOT_TRACK": "1",  # Hugging Face's libraries, and others that follow donottrack.sh
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false",
}
# OpenVINO has no such variable; with an empty module in place of its own, it sends nothing.
sys.modules["openvino_telemetry"] = types.ModuleType("openvino_telemetry")
