from datetime import timedelta
from ledger.database import execute
from ledger.transitions.schedule import beat
from recovery.web.scenes import opened

def test_shots(visit, scenes, stage):
    beat(part="reconciler")
    execute("INSERT INTO desk (operation, workspace_id, holder_id, held_until, wakes_on, labels, changed_at) VALUES (%s,%s,%s, now() + interval '22 min', '', '[\"known\", \"vip\"]', now())", [scenes["escalated"], stage.workspace_id, stage.people["otto"]])
    execute("INSERT INTO desk (operation, workspace_id, holder_id, held_until, wakes_on, labels, changed_at) VALUES (%s,%s,%s, now() + interval '12 min', '', '[]', now())", [scenes["conflict"], stage.workspace_id, stage.people["olive"]])
    execute("INSERT INTO desk (operation, workspace_id, snoozed_until, wakes_on, labels, changed_at) VALUES (%s,%s, now() + interval '3 h', '', '[]', now())", [scenes["awaiting"], stage.workspace_id])
    [(cause, tool)] = execute("SELECT cause, tool_id FROM operation WHERE id = %s", [scenes["reconciling"]])
    execute("INSERT INTO note (id, workspace_id, tool_id, cause, author_id, text, mentions, at) VALUES (gen_random_uuid(), %s, %s, %s, %s, 'Helpdesk has an incident open, see status page. Do not file again.', '[]', now())", [stage.workspace_id, tool, cause, stage.people["max"]])
    for width, height in ((1280, 800), (390, 844)):
        for theme in ("light", "dark"):
            page = visit("olive", "/queue/", width=width, theme=theme)
            page.set_viewport_size({"width": width, "height": height})
            n = f"/tmp/k_{width}_{theme}"
            page.screenshot(path=f"{n}_list.png")
            page.keyboard.press("j")
            page.keyboard.press("j")
            page.keyboard.press("Space")
            page.wait_for_selector("#peek:not([hidden])")
            page.wait_for_timeout(300)
            page.screenshot(path=f"{n}_peek.png")
            page.keyboard.press("Escape")
            page.goto("/queue/?group=cause")
            page.screenshot(path=f"{n}_group.png")
            page.goto("/queue/?q=is:unresolved+state:bad+tool:tickets.*")
            page.screenshot(path=f"{n}_wrong.png")
            page.click("#q")
            page.keyboard.press("End")
            page.keyboard.type(" sta")
            page.wait_for_timeout(500)
            page.screenshot(path=f"{n}_complete.png")
            page.keyboard.press("Escape")
            page.keyboard.press("Escape")
            page.click("#filter-help summary")
            page.screenshot(path=f"{n}_help.png")
            page.goto("/queue/")
            page.check(".tick >> nth=0")
            page.check(".tick >> nth=2")
            page.click("#keep-view summary")
            page.screenshot(path=f"{n}_ticked.png")
