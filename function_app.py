"""The composition root of the function app: the environment's services, and every function on them."""

from __future__ import annotations

import os

from functions.app import create_app
from functions.services import Services
from shared.adapters.composition import services_from_environment

app = create_app(services_from_environment(os.environ, Services))
