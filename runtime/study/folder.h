/* folder.h - the directory of a study. */
#ifndef YK_STUDY_FOLDER_H
#define YK_STUDY_FOLDER_H

#include "base/status.h"

/* yk_study_make_folder - make a directory and its missing parents, as `mkdir -p`. Errors: YK_E_INVAL (an empty or an
 *   overlong path), YK_E_IO. Thread: any. */
yk_status yk_study_make_folder(const char *dir, yk_err *err);

#endif
