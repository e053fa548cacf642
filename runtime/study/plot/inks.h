/* inks.h - colours of inks. */
#ifndef YK_STUDY_PLOT_INKS_H
#define YK_STUDY_PLOT_INKS_H

#include "base/strbuf.h"
#include "study/plot/drawing.h"

typedef enum yk_scheme {
  YK_SCHEME_LIGHT,
  YK_SCHEME_DARK,
  YK_SCHEME_PAGE /* variables of the page's style, which selects light or dark */
} yk_scheme;

/* yk_ink_rgb - 0xRRGGBB; scheme: light or dark. */
unsigned yk_ink_rgb(yk_ink ink, yk_scheme scheme);

/* yk_ink_append - the colour in SVG: "#1b2226", "none"; for a page "var(--text)". */
void yk_ink_append(yk_strbuf *out, yk_ink ink, yk_scheme scheme);

/* yk_inks_append_style - append the variables as CSS declarations. */
void yk_inks_append_style(yk_strbuf *out, yk_scheme scheme);

#endif
