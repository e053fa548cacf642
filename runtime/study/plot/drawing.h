/* drawing.h - a figure as paths, rectangles and texts in pixels (1/96 inch), y downwards, independent of the file
 * format. Texts are in Helvetica, whose widths are in a table, so that positions do not depend on the reader's fonts. A
 * drawing can be written as SVG (svg.h) and as PDF (pdf.h). */
#ifndef YK_STUDY_PLOT_DRAWING_H
#define YK_STUDY_PLOT_DRAWING_H

#include <stdbool.h>
#include <stddef.h>

#define YK_FONT_SLACK 1.12 /* reserve for programs that lack Helvetica and use a wider font */

/* Colours by purpose; each has one value for a light and one for a dark background (inks.h). */
typedef enum yk_ink {
  YK_INK_NONE,
  YK_INK_GROUND,
  YK_INK_TEXT,
  YK_INK_QUIET,
  YK_INK_GRID,
  YK_INK_CONTROL,
  YK_INK_FRONTIER,
  YK_INK_ON_FILL,
  YK_INK_SERIES, /* of 12, from the first series to the last */
  YK_INK_GEMM = YK_INK_SERIES + 12,
  YK_INK_HEAD,
  YK_INK_ATTENTION,
  YK_INK_OTHER,
  YK_INK_REDUCE,
  YK_INK_WAIT,
  YK_INK_SAMPLE,
  YK_INK_HOST,
  YK_N_INKS
} yk_ink;

typedef enum yk_anchor { YK_ANCHOR_START, YK_ANCHOR_MIDDLE, YK_ANCHOR_END } yk_anchor;
typedef enum yk_mark_kind { YK_MARK_PATH, YK_MARK_RECT, YK_MARK_TEXT } yk_mark_kind;

typedef struct yk_segment {
  char op; /* M, L, C, Z */
  double at[6];
} yk_segment;

typedef struct yk_mark {
  yk_mark_kind kind;
  const char *role; /* class of the element: "datum", "whisker", ...; static, or NULL */
  yk_ink fill, stroke;
  bool has_pattern; /* a rectangle filled with the hatching of its ink */
  bool has_halo;    /* a text with an outline in the background's colour */
  bool is_bold;
  bool is_round;     /* round ends and joins of the line */
  double width;      /* of the line */
  double opacity;    /* of the line, 0: opaque */
  const char *dash;  /* "7 3", static; NULL: none */
  double x, y, w, h; /* of a rectangle; x, y: also of a text's baseline */
  double size;       /* of a text */
  yk_anchor anchor;
  char *text;           /* owned */
  char *words;          /* tooltip, owned; or NULL */
  yk_segment *segments; /* owned */
  size_t n_segments;
} yk_mark;

typedef struct yk_drawing {
  double width, height;
  double x, y;    /* position among the drawings of one figure */
  yk_mark *marks; /* owned */
  size_t n_marks, capacity;
  bool is_legend; /* a screen reader can skip it */
  bool failed;    /* memory ran out: the drawing must not be written */
  yk_mark spare;  /* receives additions after a failure */
} yk_drawing;

void yk_drawing_free(yk_drawing *drawing);

/* yk_drawing_path, _rect, _text, _line - add a mark, whose other members the caller may set; never NULL. The pointer is
 *   valid until the next mark is added. text is copied. _line: a path from x1, y1 to x2, y2. */
yk_mark *yk_drawing_path(yk_drawing *drawing, const char *role, yk_ink fill, yk_ink stroke, double width);
yk_mark *yk_drawing_rect(yk_drawing *drawing, const char *role, yk_ink fill, double x, double y, double w, double h);
yk_mark *yk_drawing_text(yk_drawing *drawing, const char *role, yk_ink fill, double x, double y, double size,
                         yk_anchor anchor, const char *text);
yk_mark *yk_drawing_line(yk_drawing *drawing, const char *role, yk_ink stroke, double width, double x1, double y1,
                         double x2, double y2);

/* yk_path_to - add a segment to the last mark: 'M' or 'L' to x, y; 'Z' closes. yk_path_curve: a cubic Bezier curve. */
void yk_path_to(yk_drawing *drawing, char op, double x, double y);
void yk_path_curve(yk_drawing *drawing, double x1, double y1, double x2, double y2, double x, double y);

/* yk_drawing_explain - set the tooltip of the last mark; copied. */
void yk_drawing_explain(yk_drawing *drawing, const char *words);

/* yk_text_width - width in pixels of UTF-8 text in Helvetica. */
double yk_text_width(const char *text, double size, bool is_bold);

/* yk_text_next - the code point at *text, which advances after it; U+FFFD for bytes that are not UTF-8 and for control
 *   characters; 0 at the end. */
unsigned yk_text_next(const char **text);

#endif
