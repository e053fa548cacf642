#include "study/plot/pdf.h"

#include <math.h>

#include "study/plot/hatching.h"
#include "study/plot/inks.h"

enum { N_OBJECTS = 7 };
#define POINTS_PER_PX 0.75

/* Appends a colour with operator RG (lines) or rg (fills). share: portion of ink, mixed with other. */
static void append_colour(yk_strbuf *out, yk_ink ink, yk_ink other, double share, const char *operator)
{
  unsigned a = yk_ink_rgb(ink, YK_SCHEME_LIGHT), b = yk_ink_rgb(other, YK_SCHEME_LIGHT);
  for (int shift = 16; shift >= 0; shift -= 8)
    yk_strbuf_append_fmt(out, "%.3g ", (share * (a >> shift & 255) + (1 - share) * (b >> shift & 255)) / 255);
  yk_strbuf_append_fmt(out, "%s\n", operator);
}

static void append_place(yk_strbuf *out, double x, double y, const char *operator)
{
  yk_strbuf_append_fmt(out, "%.2f %.2f %s\n", x, y, operator);
}

/* Appends a string in WinAnsiEncoding. */
static void append_string(yk_strbuf *out, const char *text)
{
  yk_strbuf_append_str(out, "(");
  for (unsigned code; (code = yk_text_next(&text)) != 0;) {
    if (code == 0x2212 || code == 0x2013) code = 0x96; /* a minus sign, as wide as a dash */
    if (code == '(' || code == ')' || code == '\\')
      yk_strbuf_append_fmt(out, "\\%c", (char)code);
    else if (code < 0x7f)
      yk_strbuf_append_fmt(out, "%c", (char)code);
    else if (code == 0x96 || (code >= 0xa0 && code <= 0xff))
      yk_strbuf_append_fmt(out, "\\%03o", code);
    else
      yk_strbuf_append_str(out, "?");
  }
  yk_strbuf_append_str(out, ")");
}

static void append_path(yk_strbuf *out, const yk_mark *mark)
{
  for (size_t i = 0; i < mark->n_segments; i++) {
    const double *at = mark->segments[i].at;
    char op = mark->segments[i].op;
    if (op == 'C') yk_strbuf_append_fmt(out, "%.2f %.2f %.2f %.2f ", at[0], at[1], at[2], at[3]);
    if (op == 'Z')
      yk_strbuf_append_str(out, "h\n");
    else
      append_place(out, at[op == 'C' ? 4 : 0], at[op == 'C' ? 5 : 1], op == 'M' ? "m" : op == 'L' ? "l" : "c");
  }
}

static void append_line_looks(yk_strbuf *out, const yk_mark *mark)
{
  append_colour(out, mark->stroke, YK_INK_GROUND, mark->opacity > 0 ? mark->opacity : 1, "RG");
  yk_strbuf_append_fmt(out, "%.3g w %d J %d j [%s] 0 d\n", mark->width, mark->is_round, mark->is_round,
                       mark->dash ? mark->dash : "");
}

/* Appends the lines of a rectangle's hatching; tiles are at multiples of their size as in SVG. */
static void append_hatching(yk_strbuf *out, const yk_mark *mark)
{
  const yk_hatch *hatch = yk_hatch_of(mark->fill);
  if (!hatch->n_lines || !(mark->w > 0)) return;
  yk_strbuf_append_fmt(out, "q %.2f %.2f %.2f %.2f re W n\n", mark->x, mark->y, mark->w, mark->h);
  append_colour(out, YK_INK_ON_FILL, mark->fill, YK_HATCH_OPACITY, "RG");
  yk_strbuf_append_fmt(out, "%.3g w 1 J [] 0 d\n", hatch->width);
  int last_x = (int)ceil((mark->x + mark->w) / YK_HATCH_PX), last_y = (int)ceil((mark->y + mark->h) / YK_HATCH_PX);
  for (int y = (int)floor(mark->y / YK_HATCH_PX); y < last_y; y++)
    for (int x = (int)floor(mark->x / YK_HATCH_PX); x < last_x; x++)
      for (int i = 0; i < hatch->n_lines; i++) {
        append_place(out, x * YK_HATCH_PX + hatch->lines[i].x1, y * YK_HATCH_PX + hatch->lines[i].y1, "m");
        append_place(out, x * YK_HATCH_PX + hatch->lines[i].x2 + 0.01, y * YK_HATCH_PX + hatch->lines[i].y2, "l");
      }
  yk_strbuf_append_str(out, "S Q\n");
}

static void append_shape(yk_strbuf *out, const yk_mark *mark)
{
  bool has_fill = mark->fill != YK_INK_NONE, has_line = mark->stroke != YK_INK_NONE;
  if (has_fill) append_colour(out, mark->fill, mark->fill, 1, "rg");
  if (has_line) append_line_looks(out, mark);
  if (mark->kind == YK_MARK_PATH)
    append_path(out, mark);
  else
    yk_strbuf_append_fmt(out, "%.2f %.2f %.2f %.2f re\n", mark->x, mark->y, mark->w, mark->h);
  if (!mark->has_pattern) {
    yk_strbuf_append_str(out, has_fill && has_line ? "B\n" : has_fill ? "f\n" : "S\n");
    return;
  }
  yk_strbuf_append_str(out, "f\n");
  append_hatching(out, mark);
  if (has_line) yk_strbuf_append_fmt(out, "%.2f %.2f %.2f %.2f re S\n", mark->x, mark->y, mark->w, mark->h);
}

static void append_letters(yk_strbuf *out, const yk_mark *mark)
{
  const char *text = mark->text ? mark->text : "";
  double x = mark->x - yk_text_width(text, mark->size, mark->is_bold) * mark->anchor / 2;
  for (int halo = mark->has_halo; halo >= 0; halo--) {
    append_colour(out, halo ? YK_INK_GROUND : mark->fill, YK_INK_GROUND, 1, halo ? "RG" : "rg");
    yk_strbuf_append_fmt(out, "%sBT /F%d %.3g Tf %d Tr 1 0 0 -1 %.2f %.2f Tm ", halo ? "3 w 1 j [] 0 d " : "",
                         mark->is_bold ? 2 : 1, mark->size, halo, x, mark->y);
    append_string(out, text);
    yk_strbuf_append_str(out, " Tj ET\n");
  }
}

static void append_marks(yk_strbuf *out, const yk_drawing *drawings, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    yk_strbuf_append_fmt(out, "q 1 0 0 1 %.2f %.2f cm\n", drawings[i].x, drawings[i].y);
    for (size_t k = 0; k < drawings[i].n_marks; k++) {
      const yk_mark *mark = &drawings[i].marks[k];
      if (mark->kind == YK_MARK_TEXT)
        append_letters(out, mark);
      else
        append_shape(out, mark);
    }
    yk_strbuf_append_str(out, "Q\n");
  }
}

void yk_pdf_append_file(yk_strbuf *out, const yk_drawing *drawings, size_t n, const char *title)
{
  double width = 0, height = 0;
  size_t start = out->length, places[N_OBJECTS];
  int number = 0;
  yk_strbuf marks = YK_STRBUF_INIT;
  for (size_t i = 0; i < n; i++) {
    width = fmax(width, drawings[i].x + drawings[i].width);
    height = fmax(height, drawings[i].y + drawings[i].height);
  }
  width *= POINTS_PER_PX;
  height *= POINTS_PER_PX;
  yk_strbuf_append_fmt(&marks, "%g 0 0 %g 0 %.2f cm\n", POINTS_PER_PX, -POINTS_PER_PX, height);
  append_marks(&marks, drawings, n);
  out->failed |= marks.failed;
  yk_strbuf_append_str(out, "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n");
#define OBJECT(...)                                                                                                    \
  places[number++] = out->length - start;                                                                              \
  yk_strbuf_append_fmt(out, "%d 0 obj\n", number);                                                                     \
  yk_strbuf_append_fmt(out, __VA_ARGS__)
  OBJECT("<</Type/Catalog/Pages 2 0 R>>\nendobj\n");
  OBJECT("<</Type/Pages/Kids[3 0 R]/Count 1>>\nendobj\n");
  OBJECT("<</Type/Page/Parent 2 0 R/MediaBox[0 0 %.2f %.2f]/Contents 6 0 R/Resources"
         "<</Font<</F1 4 0 R/F2 5 0 R>>>>>>\nendobj\n",
         width, height);
  OBJECT("<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>\nendobj\n");
  OBJECT("<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>\nendobj\n");
  OBJECT("<</Length %zu>>\nstream\n", marks.length);
  yk_strbuf_append(out, marks.data, marks.length);
  yk_strbuf_append_str(out, "endstream\nendobj\n");
  OBJECT("<</Producer(Yoke)/Title");
  append_string(out, title);
  yk_strbuf_append_str(out, ">>\nendobj\n");
#undef OBJECT
  size_t table = out->length - start;
  yk_strbuf_append_fmt(out, "xref\n0 %d\n0000000000 65535 f \n", N_OBJECTS + 1);
  for (int i = 0; i < N_OBJECTS; i++) yk_strbuf_append_fmt(out, "%010zu 00000 n \n", places[i]);
  yk_strbuf_append_fmt(out, "trailer\n<</Size %d/Root 1 0 R/Info 7 0 R>>\nstartxref\n%zu\n%%%%EOF\n", N_OBJECTS + 1,
                       table);
  yk_strbuf_free(&marks);
}
