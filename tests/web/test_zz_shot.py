import os, re
from pathlib import Path
from tests.web.test_items import batch, say  # noqa
def test_shot(batch, as_person, settings):
    page=batch(north=201, south=402)
    html=as_person("olive").get(page).content
    from playwright.sync_api import sync_playwright
    def serve(route):
        path=route.request.url.split("x.test",1)[1].split("?")[0]
        if path.startswith("/static/"):
            f=Path("static")/path[8:]
            route.fulfill(path=str(f)) if f.exists() else route.fulfill(status=404,body="")
        else: route.fulfill(body=html,content_type="text/html; charset=utf-8")
    with sync_playwright() as p:
        b=p.chromium.launch(executable_path="/usr/bin/chromium",args=["--no-sandbox"])
        for w,h,scheme in ((1280,1000,"light"),(390,844,"dark")):
            c=b.new_context(viewport={"width":w,"height":h},color_scheme=scheme)
            pg=c.new_page(); pg.route("**/*",serve); pg.goto(f"http://x.test{page}")
            pg.wait_for_timeout(500)
            pg.screenshot(path=f"/tmp/items-{w}.png",full_page=True)
            print(w, pg.evaluate("document.documentElement.scrollWidth"))
            print(pg.evaluate("""[...document.querySelectorAll('*')].filter(e=>e.getBoundingClientRect().right>innerWidth+1).map(e=>e.tagName+'#'+e.id+'.'+e.className+' '+Math.round(e.getBoundingClientRect().right)+' in '+(e.closest('section')||{id:'-'}).id).slice(0,12).join('\\n')"""))
        b.close()
