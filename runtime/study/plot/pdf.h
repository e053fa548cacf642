/* pdf.h - drawings as a page of PDF 1.4 with the drawing's size, for inclusion in LaTeX. Texts remain text, in
 * Helvetica, which every reader has. */
#ifndef YK_STUDY_PLOT_PDF_H
#define YK_STUDY_PLOT_PDF_H

#include "base/strbuf.h"
#include "study/plot/drawing.h"

/* yk_pdf_append_file - append a page with the drawings at their positions, in light colours and without a background.
 *   Characters outside Latin-1 become "?". */
void yk_pdf_append_file(yk_strbuf *out, const yk_drawing *drawings, size_t n, const char *title);

#endif
