#include "study/plot/svg.h"

#include <math.h>

#include "base/utf8.h"
#include "study/plot/hatching.h"

enum { MARGIN_PX = 8 };

static const char fonts[] = "Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', sans-serif";

/* Appends text between tags or in an attribute; characters that XML excludes become U+FFFD. */
static void append_text(yk_strbuf *out, const char *text)
{
  for (unsigned code; (code = yk_text_next(&text)) != 0;) {
    char utf8[YK_UTF8_MAX_BYTES];
    const char *name = code == '<' ? "&lt;" : code == '>' ? "&gt;" : code == '&' ? "&amp;" : code == '"' ? "&quot;" : 0;
    if (code == 0xfffe || code == 0xffff) code = 0xfffd;
    if (name)
      yk_strbuf_append_str(out, name);
    else
      yk_strbuf_append(out, utf8, yk_utf8_encode(code, utf8));
  }
}

/* " name="12.5"" */
static void append_number(yk_strbuf *out, const char *name, double value)
{
  yk_strbuf_append_fmt(out, " %s=\"%.6g\"", name, round(value * 100) / 100);
}

static void append_ink(yk_strbuf *out, const char *name, yk_ink ink, yk_scheme scheme)
{
  yk_strbuf_append_fmt(out, " %s=\"", name);
  yk_ink_append(out, ink, scheme);
  yk_strbuf_append_str(out, "\"");
}

static void append_line_looks(yk_strbuf *out, const yk_mark *mark, yk_scheme scheme)
{
  if (mark->stroke == YK_INK_NONE) return;
  append_ink(out, "stroke", mark->stroke, scheme);
  append_number(out, "stroke-width", mark->width);
  if (mark->dash) yk_strbuf_append_fmt(out, " stroke-dasharray=\"%s\"", mark->dash);
  if (mark->opacity > 0) append_number(out, "stroke-opacity", mark->opacity);
  if (mark->is_round) yk_strbuf_append_str(out, " stroke-linecap=\"round\" stroke-linejoin=\"round\"");
}

static void append_path(yk_strbuf *out, const yk_mark *mark)
{
  yk_strbuf_append_str(out, " d=\"");
  for (size_t i = 0; i < mark->n_segments; i++) {
    const yk_segment *segment = &mark->segments[i];
    int n = segment->op == 'C' ? 6 : segment->op == 'Z' ? 0 : 2;
    yk_strbuf_append(out, &segment->op, 1);
    for (int k = 0; k < n; k++)
      yk_strbuf_append_fmt(out, k ? ",%.6g" : "%.6g", round(segment->at[k] * 100) / 100 + 0.0);
  }
  yk_strbuf_append_str(out, "\"");
}

static void append_text_looks(yk_strbuf *out, const yk_mark *mark, yk_scheme scheme)
{
  static const char *const anchors[] = {"start", "middle", "end"};
  append_number(out, "x", mark->x);
  append_number(out, "y", mark->y);
  append_number(out, "font-size", mark->size);
  if (mark->is_bold) yk_strbuf_append_str(out, " font-weight=\"bold\"");
  if (mark->anchor != YK_ANCHOR_START) yk_strbuf_append_fmt(out, " text-anchor=\"%s\"", anchors[mark->anchor]);
  /* Helvetica's width, independent of the reader's font. */
  append_number(out, "textLength", yk_text_width(mark->text ? mark->text : "", mark->size, mark->is_bold));
  yk_strbuf_append_str(out, " lengthAdjust=\"spacingAndGlyphs\"");
  if (!mark->has_halo) return;
  append_ink(out, "stroke", YK_INK_GROUND, scheme);
  yk_strbuf_append_str(out, " stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"");
}

static void append_mark(yk_strbuf *out, const yk_mark *mark, yk_scheme scheme)
{
  static const char *const names[] = {"path", "rect", "text"};
  yk_strbuf_append_fmt(out, "<%s", names[mark->kind]);
  if (mark->role && scheme == YK_SCHEME_PAGE) yk_strbuf_append_fmt(out, " class=\"%s\"", mark->role);
  if (mark->kind == YK_MARK_PATH) append_path(out, mark);
  if (mark->kind == YK_MARK_TEXT) append_text_looks(out, mark, scheme);
  if (mark->kind == YK_MARK_RECT) {
    append_number(out, "x", mark->x);
    append_number(out, "y", mark->y);
    append_number(out, "width", mark->w);
    append_number(out, "height", mark->h);
  }
  if (mark->has_pattern)
    yk_strbuf_append_fmt(out, " fill=\"url(#hatch-%d)\"", (int)mark->fill);
  else
    append_ink(out, "fill", mark->fill, scheme);
  append_line_looks(out, mark, scheme);
  yk_strbuf_append_str(out, ">");
  if (mark->words) {
    yk_strbuf_append_str(out, "<title>");
    append_text(out, mark->words);
    yk_strbuf_append_str(out, "</title>");
  }
  if (mark->text) append_text(out, mark->text);
  yk_strbuf_append_fmt(out, "</%s>\n", names[mark->kind]);
}

void yk_svg_append_hatching(yk_strbuf *out, yk_scheme scheme)
{
  yk_strbuf_append_str(out, "<defs>\n");
  for (int ink = YK_INK_GEMM; ink <= YK_INK_HOST; ink++) {
    const yk_hatch *hatch = yk_hatch_of((yk_ink)ink);
    yk_strbuf_append_fmt(out, "<pattern id=\"hatch-%d\" width=\"%d\" height=\"%d\" patternUnits=\"userSpaceOnUse\">",
                         ink, YK_HATCH_PX, YK_HATCH_PX);
    yk_strbuf_append_fmt(out, "<rect class=\"base\" width=\"%d\" height=\"%d\"", YK_HATCH_PX, YK_HATCH_PX);
    append_ink(out, "fill", (yk_ink)ink, scheme);
    yk_strbuf_append_str(out, "/>");
    for (int i = 0; i < hatch->n_lines; i++)
      yk_strbuf_append_fmt(out, "%sM%g,%gL%g,%g", i ? "" : "<path d=\"", hatch->lines[i].x1, hatch->lines[i].y1,
                           hatch->lines[i].x2 + 0.01, hatch->lines[i].y2);
    if (hatch->n_lines) {
      yk_strbuf_append_fmt(out, "\" fill=\"none\" stroke-linecap=\"round\" stroke-width=\"%g\" stroke-opacity=\"%g\"",
                           hatch->width, YK_HATCH_OPACITY);
      append_ink(out, "stroke", YK_INK_ON_FILL, scheme);
      yk_strbuf_append_str(out, "/>");
    }
    yk_strbuf_append_str(out, "</pattern>\n");
  }
  yk_strbuf_append_str(out, "</defs>\n");
}

void yk_svg_append(yk_strbuf *out, const yk_drawing *drawing)
{
  yk_strbuf_append_fmt(out, "<svg%s width=\"%.6g\" height=\"%.6g\" viewBox=\"0 0 %.6g %.6g\" font-family=\"%s\">\n",
                       drawing->is_legend ? " class=\"legend\"" : "", drawing->width, drawing->height, drawing->width,
                       drawing->height, fonts);
  for (size_t i = 0; i < drawing->n_marks; i++) append_mark(out, &drawing->marks[i], YK_SCHEME_PAGE);
  yk_strbuf_append_str(out, "</svg>\n");
}

void yk_svg_append_file(yk_strbuf *out, const yk_drawing *drawings, size_t n, const char *title, yk_scheme scheme)
{
  double width = 0, height = 0;
  for (size_t i = 0; i < n; i++) {
    width = fmax(width, drawings[i].x + drawings[i].width);
    height = fmax(height, drawings[i].y + drawings[i].height);
  }
  width += 2 * MARGIN_PX;
  height += 2 * MARGIN_PX;
  yk_strbuf_append_fmt(out,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.6g\" height=\"%.6g\" viewBox=\"0 0 %.6g "
                       "%.6g\" role=\"img\" font-family=\"%s\">\n<title>",
                       width, height, width, height, fonts);
  append_text(out, title);
  yk_strbuf_append_str(out, "</title>\n");
  yk_svg_append_hatching(out, scheme);
  yk_strbuf_append_str(out, "<rect width=\"100%\" height=\"100%\"");
  append_ink(out, "fill", YK_INK_GROUND, scheme);
  yk_strbuf_append_str(out, "/>\n");
  for (size_t i = 0; i < n; i++) {
    yk_strbuf_append_fmt(out, "<g transform=\"translate(%.6g,%.6g)\">\n", MARGIN_PX + drawings[i].x,
                         MARGIN_PX + drawings[i].y);
    for (size_t k = 0; k < drawings[i].n_marks; k++) append_mark(out, &drawings[i].marks[k], scheme);
    yk_strbuf_append_str(out, "</g>\n");
  }
  yk_strbuf_append_str(out, "</svg>\n");
}
