"""Writes the numbers of a stream's events from its beginning, one a line: tail.py URL LIVE COUNT."""

import os
import sys
import time

import httpx
from durable_streams import DurableStreamError, stream

url, live, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
token = os.environ.get("LONGHAND_TOKEN")
headers = {"Authorization": f"Bearer {token}"} if token else {}
offset, seen = "-1", 0
while seen < count:
    try:
        with stream(url, offset=offset, live=live, headers=headers) as response:
            for event in response.iter_json():
                print(event["seq"], flush=True)
                # An event's cursor is the offset after it: nothing comes twice.
                offset = event["cursor"]
                seen += 1
                if seen == count:
                    break
    except (DurableStreamError, httpx.HTTPError, OSError):
        # While the daemon is away, this client leaves it to its user to try again.
        time.sleep(0.2)
