"""Receivers of webhooks on loopback that fail in the ways that real ones do."""

import ssl
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


class Receiver:
    """Answers with the statuses of a list, then 200; "slow" is no answer before the end."""

    def __init__(self, answers=()):
        self.answers, self.got, self.ended = list(answers), [], Event()

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.got.append((handler.path, dict(handler.headers), body))
        answer = self.answers.pop(0) if self.answers else 200
        if answer == "slow":
            self.ended.wait(60)
        elif answer == "trickle":
            while not self.ended.wait(0.01):
                handler.wfile.write(b"HTTP/1.1 200 OK"[:1])
        else:
            handler.send_response(answer)
            if 300 <= answer < 400:
                handler.send_header("Location", "/elsewhere")
            handler.send_header("Content-Length", "0")
            handler.end_headers()


@contextmanager
def receiving(receiver, port=0, certificate=None):
    """A receiver that runs, and its URL; over TLS with a file of a certificate and its key."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            try:
                receiver.take(self)
            except OSError:
                self.close_connection = True

        def log_message(self, *arguments):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            pass

    server = Server(("127.0.0.1", port), Handler)
    scheme = "http"
    if certificate is not None:
        scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}/hook/secret-part?a=b"
    finally:
        receiver.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
