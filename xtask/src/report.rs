//! `cargo xtask report [CHROMIUM]`: `report.html` in headless Chromium, in light, dark, on a phone
//! and in print.
//!
//! The page stands in a frame of a page that forbids every request, notes attempts, and measures
//! elements wider than the frame. Two broken pages have to be caught: one that requests a picture,
//! and one that is too wide.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::built::command_and_folder;

/// Flags of every call.
const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    // The browser's own requests go nowhere.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=5000",
    "--window-size=1000,4000",
];
/// Widths of frames: a phone, the width that A4 leaves between margins, a desk.
const WIDTHS: [u32; 3] = [390, 718, 1000];
const SCHEMES: [(&str, &str); 2] = [
    ("dark", "--blink-settings=preferredColorScheme=0"),
    ("light", "--blink-settings=preferredColorScheme=1"),
];
/// A run of a second or two that leaves every section.
const TRAIN: &str = "train --epsilon 1 --max-passes 5 --holdout 0.2 --evaluate --date 2026-01-31 --quiet --force --out";
const TUNE: &str =
    "tune --epsilon 1 --max-passes 2,3 --law geometric --repeats 1 --quiet --force --out";

/// Makes reports, opens them, and leaves pictures beside them.
pub(crate) fn run(root: &Path, chromium: &str) -> Result<(), String> {
    let (command, folder) = command_and_folder(root, "report-pages")?;
    for (name, flags) in [("train", TRAIN), ("tune", TUNE)] {
        let out = folder.join(name);
        let status = Command::new(&command)
            .args(flags.split(' '))
            .arg(&out)
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("dpopt {flags} failed"));
        }
        let browser = Browser { chromium, out };
        let page = browser.read("report.html")?;
        if let Some(wrong) = browser.look(&page)?.first() {
            return Err(format!("{name}: {wrong}"));
        }
        browser.pictures()?;
        println!(
            "{name}: no request and nothing too wide; pictures in {}",
            browser.out.display()
        );
    }
    let browser = Browser {
        chromium,
        out: folder.join("train"),
    };
    let page = browser.read("report.html")?;
    for (what, extra) in [
        (
            "a request",
            "<img alt=\"\" src=\"http://example.invalid/a.png\">",
        ),
        (
            "a wide line",
            "<p style=\"width:1200px;max-width:none\">wide</p>",
        ),
    ] {
        let broken = page.replace("</main>", &format!("{extra}</main>"));
        if broken == page || browser.look(&broken)?.is_empty() {
            return Err(format!("a page with {what} was not caught"));
        }
    }
    println!("both broken pages were caught");
    Ok(())
}

struct Browser<'a> {
    chromium: &'a str,
    out: PathBuf,
}

impl Browser<'_> {
    fn read(&self, name: &str) -> Result<String, String> {
        let path = self.out.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn call(&self, flags: &[String]) -> Result<String, String> {
        let profile = self.out.join("profile");
        let _ = std::fs::remove_dir_all(&profile);
        let output = Command::new(self.chromium)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(flags)
            .stderr(Stdio::null())
            .output()
            .map_err(|error| format!("cannot start {}: {error}", self.chromium))?;
        let _ = std::fs::remove_dir_all(&profile);
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("{} failed: {}", self.chromium, output.status)),
        }
    }

    /// The faults of a page, in every width and scheme.
    fn look(&self, page: &str) -> Result<Vec<String>, String> {
        let mut wrong = Vec::new();
        for (scheme, flag) in SCHEMES {
            for width in WIDTHS {
                let frame = self.out.join("frame.html");
                std::fs::write(&frame, framed(page, width)).map_err(|error| error.to_string())?;
                let flags = [flag.to_owned(), "--dump-dom".to_owned(), address(&frame)?];
                let dom = self.call(&flags)?;
                let found = dom.split("data-found=\"").nth(1);
                let found = found.and_then(|rest| rest.split('"').next());
                match found {
                    Some("fits") => {}
                    Some(found) => wrong.push(format!("{scheme}, {width} px: {found}")),
                    None => return Err(format!("{scheme}, {width} px: nothing was measured")),
                }
            }
        }
        Ok(wrong)
    }

    /// Pictures of both schemes and of a phone, and the pages of a printer.
    fn pictures(&self) -> Result<(), String> {
        let page = address(&self.out.join("report.html"))?;
        for (name, flag) in SCHEMES {
            let picture = self.out.join(format!("{name}.png"));
            let shot = format!("--screenshot={}", picture.display());
            self.call(&[flag.to_owned(), shot, page.clone()])?;
        }
        let frame = self.out.join("frame.html");
        let phone = framed(&self.read("report.html")?, WIDTHS[0]);
        std::fs::write(&frame, phone).map_err(|error| error.to_string())?;
        let shot = format!("--screenshot={}", self.out.join("phone.png").display());
        self.call(&[shot, address(&frame)?])?;
        let paper = self.out.join("print.pdf");
        let print = format!("--print-to-pdf={}", paper.display());
        self.call(&[print, "--no-pdf-header-footer".to_owned(), page])?;
        let bytes = std::fs::read(&paper).map_err(|error| format!("print.pdf: {error}"))?;
        match bytes.starts_with(b"%PDF") {
            true => Ok(()),
            false => Err("print.pdf is not a PDF".to_owned()),
        }
    }
}

fn address(path: &Path) -> Result<String, String> {
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    Ok(format!("file://{}", path.display()))
}

/// The page in a frame of this width, under a policy that forbids all requests; it reports `fits`
/// or its faults.
fn framed(page: &str, width: u32) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        r#"<!doctype html><html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
</head><body style="margin:0"><iframe id="f" style="border:0;width:{width}px;height:4000px"></iframe>
<div id="page" hidden data-page="{page}"></div>
<script>
const asked = [];
const f = document.getElementById("f");
f.onload = () => {{
  const d = f.contentDocument, e = d.documentElement;
  if (!d.querySelector("main")) return;
  d.addEventListener("securitypolicyviolation", v => asked.push(v.blockedURI));
  const ends = x => x.getBoundingClientRect().right;
  const wide = [...d.querySelectorAll("*")].filter(x => !x.closest(".scroll") && ends(x) > e.clientWidth + 1);
  setTimeout(() => {{
    const loaded = f.contentWindow.performance.getEntriesByType("resource").map(r => r.name);
    const links = [...d.querySelectorAll("[src], link[href], script")].map(x => x.outerHTML.slice(0, 60));
    const bad = [...new Set([...asked, ...loaded, ...links].map(x => "asks for " + x))];
    if (e.scrollWidth > e.clientWidth) bad.push("scrolls sideways: " + e.scrollWidth + " in " + e.clientWidth);
    bad.push(...wide.slice(0, 5).map(x => "too wide: " + x.tagName + " " + (x.getAttribute("class") || "")));
    document.body.setAttribute("data-found", bad.length ? bad.join("; ") : "fits");
  }}, 500);
}};
f.srcdoc = document.getElementById("page").dataset.page;
</script></body></html>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::framed;

    #[test]
    fn a_page_stays_inside_of_its_attribute() {
        let framed = framed("<p title=\"a\">1 &amp; 2</p>", 390);
        assert!(framed.contains("data-page=\"<p title=&quot;a&quot;>1 &amp;amp; 2</p>\""));
        assert!(framed.contains("width:390px"));
    }
}
