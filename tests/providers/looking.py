"""Rules for every page of ours, as far as a program can see it: WCAG 2.2, level AA, and some of our own.

A person still has to look: `make test-providers SCREENSHOTS=FOLDER` keeps pictures. Driving the browser is in
`chromium`.
"""

from playwright.sync_api import Page

LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
LEAST_TARGET_PIXELS = 24  # WCAG 2.2, 2.5.8


def faults(page: Page, *, scripts: bool = False) -> list[str]:
    """Return what is wrong with the page, each in a few words; what the keyboard meets is in `keyboard_faults`.
    `scripts`: those of the service are allowed.
    """
    limits = {"contrast": LEAST_CONTRAST, "target": LEAST_TARGET_PIXELS, "scripts": scripts}
    found = page.evaluate(LOOK, limits)
    return [str(one) for one in found]


def keyboard_faults(page: Page) -> list[str]:
    """Faults for a person who has only a keyboard: Tab must meet all there is, in its order, and show where it is."""
    expected = [str(one) for one in page.evaluate(FOCUSABLE)]
    page.evaluate(AT_THE_TOP)
    met, wrong = [], []
    for _ in expected:
        page.keyboard.press("Tab")
        place, is_visible = page.evaluate(FOCUS)
        met.append(str(place))
        if not is_visible:
            wrong.append(f"no visible focus: {place}")
    return wrong if sorted(met) == sorted(expected) else [*wrong, f"Tab meets {met}, and there is {expected}"]


# The three share how an element is told in words, and which ones the keyboard meets.
SHARED = """
  const told = one => {
    const text = one.innerText || one.textContent;  // parts of a picture have the latter alone
    const words = (one.getAttribute('aria-label') || text || one.getAttribute('name') || one.id || '');
    return `${one.tagName.toLowerCase()} ${words.trim().replace(/\\s+/g, ' ').slice(0, 60)}`.trim();
  };
  const seen = one => one.checkVisibility() && one.getClientRects().length > 0;
  const focusable = () => [...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]')]
    .filter(one => seen(one) && !one.disabled && one.tabIndex >= 0);
"""

# Tab goes on from where the focus was last, even when nothing has it any more.
AT_THE_TOP = "() => { document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex'); }"

# Tab stops once at a group of radio buttons, at the chosen one; arrows move inside it.
FOCUSABLE = f"""() => {{ {SHARED}
  return focusable().filter(one => one.type !== 'radio' || one.checked).map(told);
}}"""

FOCUS = f"""() => {{ {SHARED}
  const one = document.activeElement;
  if (!one || one === document.body) return ['nothing', true];
  const style = getComputedStyle(one);
  const outline = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  return [told(one), outline || style.boxShadow !== 'none'];
}}"""

LOOK = f"""limits => {{ {SHARED}
  const wrong = [];
  const all = selector => [...document.querySelectorAll(selector)];
  const must = (holds, words) => {{ if (!holds) wrong.push(words); }};
  must(document.documentElement.lang, 'no language');
  must(document.title.trim(), 'no title');
  must(all('h1').length === 1, `${{all('h1').length}} headings of the first level`);
  must(all('main').length === 1, `${{all('main').length}} main landmarks`);
  must(all('meta[name=viewport]').length === 1, 'no viewport for phones');
  const isOurs = one => limits.scripts && one.src.startsWith(location.origin + '/assets/') && !one.text;
  must(all('script').every(isOurs), 'a script');
  must(document.documentElement.scrollWidth <= innerWidth,
    `${{document.documentElement.scrollWidth}} pixels wide, on a screen of ${{innerWidth}}`);

  const ids = all('[id]').map(one => one.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) wrong.push(`twice the id ${{id}}`);
  for (const one of all('[aria-labelledby], [aria-describedby], label[for]')) {{
    const names = [one.getAttribute('aria-labelledby'), one.getAttribute('aria-describedby'), one.getAttribute('for')];
    for (const id of names.filter(Boolean).join(' ').split(/\\s+/)) {{
      must(document.getElementById(id), `${{told(one)}} refers to ${{id}}, which is not there`);
    }}
  }}
  let level = 1;
  for (const one of all('h1, h2, h3, h4, h5, h6')) {{
    must(Number(one.tagName[1]) <= level + 1, `a level is left out before: ${{told(one)}}`);
    level = Number(one.tagName[1]);
  }}
  for (const one of all('input:not([type=hidden]), select, textarea').filter(seen)) {{
    const labelled = (one.labels && [...one.labels].some(label => label.innerText.trim()))
      || one.getAttribute('aria-label') || one.getAttribute('aria-labelledby');
    must(labelled, `no label: ${{told(one)}}`);
  }}
  for (const one of all('a[href], button, summary').filter(seen)) {{
    const name = one.getAttribute('aria-label') || (one.innerText ?? one.textContent).trim();
    must(name, `no name: ${{one.outerHTML.slice(0, 80)}}`);
  }}
  for (const one of all('img')) must(one.hasAttribute('alt'), `no alternative text: ${{one.src}}`);
  for (const one of all('table')) must(one.querySelector('th'), 'a table without headers');
  for (const one of all('th')) must(one.hasAttribute('scope'), `a header of nothing: ${{told(one)}}`);
  for (const one of all('[tabindex]')) must(one.tabIndex <= 0, `an order of its own: ${{told(one)}}`);
  // Playwright leaves an empty style where it hid the caret for a picture.
  for (const one of all('[style]:not([style=""]), style')) wrong.push(`inline: ${{one.outerHTML.slice(0, 80)}}`);
  for (const one of all('button, a.button, input:not([type=hidden]), select, textarea, summary').filter(seen)) {{
    const box = one.getBoundingClientRect();
    must(Math.min(box.width, box.height) >= limits.target || one.type === 'checkbox' || one.type === 'radio',
      `too small: ${{told(one)}} ${{box.width}} x ${{box.height}}`);
    must(box.left >= 0 && box.right <= innerWidth, `beside the screen: ${{told(one)}}`);
  }}

  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([red, green, blue]) => [red, green, blue].map(one => one / 255)
    .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = one => {{
    for (let at = one; at; at = at.parentElement) {{
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }}
    return matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
  }};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {{
    const one = node.parentElement;
    if (!node.data.trim() || !seen(one)) continue;
    const [front, back] = [light(parts(getComputedStyle(one).color)), light(behind(one))];
    const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    must(contrast >= limits.contrast, `contrast ${{contrast.toFixed(1)}}: ${{told(one)}}`);
  }}
  return [...new Set(wrong)];
}}"""
