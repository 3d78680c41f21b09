"""An HTTP service for Arrow data that needs only the standard library and arrowipc.

python service_without_pyarrow.py
"""

import io
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.request import Request, urlopen

import arrowipc as ipc

STREAM = "application/vnd.apache.arrow.stream"
ANSWER = ipc.schema({"sensor": "string", "fahrenheit": "double"})
LIMITS = ipc.Limits(metadata_bytes=1 << 20, decompressed_bytes=64 << 20)  # what honest clients send


class Service(BaseHTTPRequestHandler):
    """Takes a stream with the columns sensor and celsius, answers with a stream in Fahrenheit."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sink = bytearray()
        try:
            with ipc.open_stream(body, columns=["sensor", "celsius"], limits=LIMITS) as reader:
                with ipc.new_stream(sink, ANSWER, compression=None) as writer:
                    for batch in reader:
                        writer.write({"sensor": batch["sensor"], "fahrenheit": batch["celsius"].to_numpy() * 1.8 + 32})
        except ipc.ArrowIpcError as error:
            self.send_error(400, explain=str(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", STREAM)
        self.end_headers()
        self.wfile.write(sink)

    def log_message(self, format: str, *args: object) -> None: ...


def main() -> None:
    """Start the service and send one request."""
    server = HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    question = io.BytesIO()
    with ipc.new_stream(question) as writer:
        writer.write({"sensor": ["north", "south"], "celsius": [0.0, 100.0]})
    request = Request(f"http://127.0.0.1:{server.server_port}", question.getvalue(), {"Content-Type": STREAM})
    with urlopen(request) as answer, ipc.open_stream(answer) as reader:
        print(reader.read_all().to_pydict())
    print("pyarrow was loaded:", "pyarrow" in sys.modules)
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
