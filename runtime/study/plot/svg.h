/* svg.h - drawings as SVG. */
#ifndef YK_STUDY_PLOT_SVG_H
#define YK_STUDY_PLOT_SVG_H

#include "base/strbuf.h"
#include "study/plot/drawing.h"
#include "study/plot/inks.h"

/* yk_svg_append - an element of a page, whose colours are variables of the page's style; marks have their role as
 *   class. */
void yk_svg_append(yk_strbuf *out, const yk_drawing *drawing);

/* yk_svg_append_hatching - the <defs> that elements of a page refer to, once for all elements. */
void yk_svg_append_hatching(yk_strbuf *out, yk_scheme scheme);

/* yk_svg_append_file - drawings at their positions as a separate file, on a background of the scheme. */
void yk_svg_append_file(yk_strbuf *out, const yk_drawing *drawings, size_t n, const char *title, yk_scheme scheme);

#endif
