"""The picture has what the log has."""

from xml.etree import ElementTree

from outrider.training.curves import draw_curves

SVG = "{http://www.w3.org/2000/svg}"


def record(step, held_out=False):
    kind = {"held_out": True} if held_out else {"objective": 1.0}
    return {"step": step, "losses": [5.0 / step, 6.0], "accuracies": [0.3, 0.2], **kind}


def test_a_line_for_each_guess_and_a_dot_for_each_measurement():
    records = [record(step) for step in range(1, 1001)] + [record(1000, held_out=True)]
    page = ElementTree.fromstring(draw_curves(records, "A <head>"))
    lines = page.findall(f"{SVG}polyline")
    assert len(lines) == 2 * 2
    assert all(len(line.attrib["points"].split()) <= 200 for line in lines)
    legend, measured = 2, 2 * 2
    assert len(page.findall(f"{SVG}circle")) == legend + measured
    assert any(text.text == "A <head>" for text in page.findall(f"{SVG}text"))


def test_nothing_yet_is_a_picture_too():
    ElementTree.fromstring(draw_curves([], "A head"))
