# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A TCP relay that stands for distance: what goes in on one side comes out on the other after a one-way delay.

As a program (python3 relay.py ROUTES.json) it serves the routes of one namespace, takes one-line commands on stdin and
answers each with "ok" on stdout: `hold NAME` (nothing is delivered any more, as in a partition; it is not lost, as TCP would
send it again), `mend NAME` (delivers what was held and goes on), `cut NAME` (connections are reset, new ones refused). It ends
with its stdin. ROUTES.json: [{"name", "listen": [addr, port], "dial": [addr, port], "delay_ms": one way}].
"""
import asyncio
import json
import subprocess
import sys

_QUEUE_BYTES = 8 << 20		# in flight per direction; a sender that is further ahead waits


class Route:
    def __init__(self, spec):
        self.name = spec["name"]
        self.listen, self.dial = spec["listen"], spec["dial"]
        self.delay_s = spec["delay_ms"] / 1000
        self.open = asyncio.Event()
        self.open.set()
        self.cut = False
        self.writers = set()

    async def serve(self):
        return await asyncio.start_server(self._accept, *self.listen)

    async def _accept(self, reader, writer):
        try:
            if self.cut:
                raise ConnectionError
            far_reader, far_writer = await asyncio.open_connection(*self.dial)
        except OSError:
            writer.transport.abort()
            return
        self.writers |= {writer, far_writer}
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        self.writers -= {writer, far_writer}

    async def _carry(self, reader, writer):
        """One direction: reads at once, writes delay_s later, the end of the stream included."""
        queue, room = asyncio.Queue(), Room(_QUEUE_BYTES)
        deliver = asyncio.ensure_future(self._deliver(queue, room, writer))
        try:
            while data := await reader.read(65536):
                await room.take(len(data))
                queue.put_nowait((asyncio.get_running_loop().time() + self.delay_s, data))
        except OSError:
            pass
        queue.put_nowait((asyncio.get_running_loop().time() + self.delay_s, b""))
        await deliver

    async def _deliver(self, queue, room, writer):
        try:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(due - asyncio.get_running_loop().time())
                await self.open.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
                room.give(len(data))
        except OSError:
            pass
        writer.close()
        room.give(1 << 40)		# whoever still waits for room must see the end

    def command(self, word):
        if word == "hold":
            self.open.clear()
        elif word == "mend":
            self.cut = False
            self.open.set()
        elif word == "cut":
            self.cut = True
            for writer in self.writers:
                writer.transport.abort()
            self.open.set()
        else:
            raise ValueError(word)


class Room:
    """A count of bytes that may be queued."""

    def __init__(self, size):
        self.left = size
        self.given = asyncio.Event()

    async def take(self, n):
        while self.left < n:
            self.given.clear()
            await self.given.wait()
        self.left -= n

    def give(self, n):
        self.left += n
        self.given.set()


class Relay:
    """The relay as a child process in a namespace."""

    def __init__(self, ns, routes, folder):
        self.ns, self.routes, self.folder = ns, routes, folder
        self.process = None

    def __enter__(self):
        path = f"{self.folder}/routes.json"
        with open(path, "w", encoding="utf-8") as f:
            json.dump(self.routes, f)
        self.process = subprocess.Popen(self.ns.enter_argv() + [sys.executable, __file__, path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True)
        if self.process.stdout.readline() != "ok\n":
            self.__exit__()
            raise OSError("the relay did not start")
        return self

    def __exit__(self, *_exc):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def command(self, word, name):
        """hold, mend or cut a route; done when this returns."""
        self.process.stdin.write(f"{word} {name}\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ok\n":
            raise OSError(f"the relay refused: {word} {name}")

    def each(self, word, *names):
        for route in self.routes:
            if not names or any(n in route["name"].split(">") for n in names):
                self.command(word, route["name"])


async def _main(path):
    with open(path, encoding="utf-8") as f:
        routes = {spec["name"]: Route(spec) for spec in json.load(f)}
    servers = [await r.serve() for r in routes.values()]
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print("ok", flush=True)
    while line := (await commands.readline()).decode():
        word, name = line.split()
        routes[name].command(word)
        print("ok", flush=True)
    for server in servers:
        server.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
