/* pdf.h - drawings as a page of PDF 1.4 of their own size, as LaTeX includes them. Texts stay texts, in Helvetica,
 * which every reader has. */
#ifndef YK_STUDY_PLOT_PDF_H
#define YK_STUDY_PLOT_PDF_H

#include "base/strbuf.h"
#include "study/plot/drawing.h"

/* yk_pdf_append_file - drawings at their places, in light colours and without a ground. Characters that Latin-1 lacks
 *   are "?". */
void yk_pdf_append_file(yk_strbuf *out, const yk_drawing *drawings, size_t n, const char *title);

#endif
