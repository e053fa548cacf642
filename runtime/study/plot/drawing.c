#include "study/plot/drawing.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* ---- Marks ------------------------------------------------------------------------------------------------------- */

static void free_mark(yk_mark *mark)
{
  free(mark->text);
  free(mark->words);
  free(mark->segments);
}

void yk_drawing_free(yk_drawing *drawing)
{
  for (size_t i = 0; i < drawing->n_marks; i++) free_mark(&drawing->marks[i]);
  free_mark(&drawing->spare);
  free(drawing->marks);
  *drawing = (yk_drawing){0};
}

static yk_mark *last_mark(yk_drawing *drawing)
{
  return drawing->failed || drawing->n_marks == 0 ? &drawing->spare : &drawing->marks[drawing->n_marks - 1];
}

static yk_mark *add(yk_drawing *drawing, yk_mark mark)
{
  if (!drawing->failed && drawing->n_marks == drawing->capacity) {
    size_t capacity = drawing->capacity ? 2 * drawing->capacity : 64;
    yk_mark *marks = realloc(drawing->marks, capacity * sizeof *marks);
    if (marks) {
      drawing->marks = marks;
      drawing->capacity = capacity;
    } else {
      drawing->failed = true;
    }
  }
  if (drawing->failed)
    free_mark(&drawing->spare);
  else
    drawing->n_marks++;
  yk_mark *added = last_mark(drawing);
  *added = mark;
  return added;
}

static char *copy_text(yk_drawing *drawing, const char *text)
{
  char *copy = strdup(text);
  if (!copy) drawing->failed = true;
  return copy;
}

yk_mark *yk_drawing_path(yk_drawing *drawing, const char *role, yk_ink fill, yk_ink stroke, double width)
{
  return add(drawing, (yk_mark){.kind = YK_MARK_PATH, .role = role, .fill = fill, .stroke = stroke, .width = width});
}

yk_mark *yk_drawing_rect(yk_drawing *drawing, const char *role, yk_ink fill, double x, double y, double w, double h)
{
  return add(drawing, (yk_mark){.kind = YK_MARK_RECT, .role = role, .fill = fill, .x = x, .y = y, .w = w, .h = h});
}

yk_mark *yk_drawing_text(yk_drawing *drawing, const char *role, yk_ink fill, double x, double y, double size,
                         yk_anchor anchor, const char *text)
{
  yk_mark *mark =
      add(drawing,
          (yk_mark){.kind = YK_MARK_TEXT, .role = role, .fill = fill, .x = x, .y = y, .size = size, .anchor = anchor});
  mark->text = copy_text(drawing, text);
  return mark;
}

static void add_segment(yk_drawing *drawing, yk_segment segment)
{
  yk_mark *mark = last_mark(drawing);
  size_t n = mark->n_segments;
  if ((n & (n - 1)) == 0) { /* capacities are 1, 2, 4, ... */
    yk_segment *segments = realloc(mark->segments, (n ? 2 * n : 1) * sizeof *segments);
    if (!segments) {
      drawing->failed = true;
      return;
    }
    mark->segments = segments;
  }
  mark->segments[mark->n_segments++] = segment;
}

void yk_path_to(yk_drawing *drawing, char op, double x, double y)
{
  add_segment(drawing, (yk_segment){op, {x, y}});
}

void yk_path_curve(yk_drawing *drawing, double x1, double y1, double x2, double y2, double x, double y)
{
  add_segment(drawing, (yk_segment){'C', {x1, y1, x2, y2, x, y}});
}

yk_mark *yk_drawing_line(yk_drawing *drawing, const char *role, yk_ink stroke, double width, double x1, double y1,
                         double x2, double y2)
{
  yk_mark *line = yk_drawing_path(drawing, role, YK_INK_NONE, stroke, width);
  yk_path_to(drawing, 'M', x1, y1);
  yk_path_to(drawing, 'L', x2, y2);
  return line;
}

void yk_drawing_explain(yk_drawing *drawing, const char *words)
{
  yk_mark *mark = last_mark(drawing);
  free(mark->words);
  mark->words = copy_text(drawing, words);
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

/* Widths of ' ' to '~' in thousandths of the size, from Adobe's metrics of the font. */
static const uint16_t regular[95] = {278,  278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
                                     556,  556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
                                     1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
                                     667,  778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
                                     333,  556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
                                     556,  556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584};
static const uint16_t bold[95] = {278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278,
                                  556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611,
                                  975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778,
                                  667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556,
                                  333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611,
                                  611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584};

unsigned yk_text_next(const char **text)
{
  uint32_t code = 0;
  if (**text == '\0') return 0;
  size_t length = yk_utf8_decode(*text, strnlen(*text, YK_UTF8_MAX_BYTES), &code);
  *text += length ? length : 1;
  return length == 0 || code < 0x20 || code == 0x7f ? 0xfffd : code;
}

double yk_text_width(const char *text, double size, bool is_bold)
{
  double sum = 0;
  for (unsigned code; (code = yk_text_next(&text)) != 0;)
    sum += code < 127 ? (is_bold ? bold : regular)[code - 32] : code == 0xa0 ? 278 : code == 0x2212 ? 584 : 556;
  return sum * size / 1000;
}
