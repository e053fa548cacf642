/* limits.h - the limits of this version of the library. A later one may have larger ones. */
#ifndef YK_LIMITS_H
#define YK_LIMITS_H

enum { YK_MAX_RANKS = 64 };

#endif
