/* utf8.h - UTF-8 for this folder and its users. */
#ifndef YK_TEXT_UTF8_H
#define YK_TEXT_UTF8_H

#include "base/utf8.h"

#endif
