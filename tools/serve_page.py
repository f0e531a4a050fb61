#!/usr/bin/env python3
"""Drives the chat page of `luminal serve` in headless Chromium (pip install playwright; Debian's chromium).

  tools/serve_page.py build/release/luminal MODEL [--pictures FOLDER]

Sends messages, stops an answer, sets a system prompt and a key, on a screen of a desktop and of a phone. The page may
ask nothing but its own server. Exits with 1 if something is wrong.
"""
import argparse
import json
import pathlib
import re
import sys

from playwright.sync_api import expect, sync_playwright

from serve_clients import KEY, Server, check, failures

END_TOKEN = 2  # of Llama's vocabularies


def drive(browser, address, name, size, touch, pictures):
    context = browser.new_context(viewport=size, has_touch=touch)
    page = context.new_page()
    errors, asked, sent = [], [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text)
            if message.type == "error" and "401" not in message.text else None)

    def note(request):
        asked.append(request.url)
        if request.url.endswith("/chat/completions"):
            sent.append(request.post_data_json)

    page.on("request", note)
    page.goto(address)
    idle = lambda: page.wait_for_selector("#send:not([hidden])", timeout=60000)
    send = lambda text: (page.fill("#text", text), page.press("#text", "Enter"))

    page.wait_for_selector("#settings:not([hidden])")  # the server asks for a key
    send("hello")
    page.wait_for_selector(".error")
    check(f"{name}: a missing key is told", "key" in page.inner_text(".error"))
    page.fill("#key", KEY)
    page.press("#key", "Tab")
    expect(page.locator("#model")).to_have_text("served")
    page.fill("#system", "<b>brief</b>")
    page.fill("#temperature", "0")
    page.fill("#tokens", "12")
    page.click("#more")
    page.click("#new")
    check(f"{name}: a new chat is empty", page.inner_text("#chat") == "")

    send("Hello there")
    page.wait_for_selector(".assistant")
    idle()
    first = page.inner_text(".assistant")
    check(f"{name}: an answer", len(first) > 0)
    check(f"{name}: the system prompt is sent", sent[-1]["messages"][0] == {"role": "system", "content": "<b>brief</b>"})
    check(f"{name}: tokens are counted", "a second" in page.inner_text(".note"))
    send("<img src=x onerror=alert(1)>")
    expect(page.locator(".assistant")).to_have_count(2)
    idle()
    check(f"{name}: markup stays text", page.query_selector("#chat img") is None)
    check(f"{name}: the conversation is sent", [m["role"] for m in sent[-1]["messages"]] ==
          ["system", "user", "assistant", "user"])

    page.click("#new")
    page.click("#more")
    page.fill("#tokens", "")
    page.fill("#temperature", "2")
    page.click("#more")
    # A model with random weights may end an answer at any token, so its end token is banned.
    page.route("**/chat/completions", lambda route: route.continue_(
        post_data=json.dumps({**route.request.post_data_json, "logit_bias": {str(END_TOKEN): -100}})))
    send("Go on for ever")
    page.wait_for_selector("#stop:not([hidden])")
    expect(page.locator(".assistant")).to_have_text(re.compile(r".{20}", re.DOTALL))
    page.click("#stop")
    idle()
    check(f"{name}: an answer is stopped", "stopped" in page.inner_text("#chat .note >> nth=-1"))
    width = page.evaluate("document.documentElement.scrollWidth")
    check(f"{name}: nothing is wider than the screen", width <= size["width"], f"{width}")
    box = page.locator("#text").bounding_box()
    check(f"{name}: the input is on the screen", box["y"] + box["height"] <= size["height"])
    check(f"{name}: no errors", not errors, errors)
    check(f"{name}: nothing from elsewhere", all(url.startswith(address) for url in asked), asked)
    if pictures:
        page.screenshot(path=pathlib.Path(pictures) / f"{name}.png")
    context.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    parser.add_argument("--pictures", help="a folder for pictures of the pages")
    options = parser.parse_args()
    server = Server(options.program, options.model, "-c", "100000")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=options.browser, args=["--no-sandbox"])
            address = server.url.removesuffix("v1")
            drive(browser, address, "desktop", {"width": 1280, "height": 800}, False, options.pictures)
            drive(browser, address, "phone", {"width": 360, "height": 640}, True, options.pictures)
            browser.close()
    finally:
        server.stop()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
