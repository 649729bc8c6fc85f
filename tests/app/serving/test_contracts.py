"""Clients as their projects have them: what each sends, and what each reads of the answer."""

from __future__ import annotations

import shutil
import subprocess
import threading

import numpy as np
import openai
import pytest
from conftest_serving import Client  # type: ignore[import-not-found]
