/* The browser of whoever sits here. */
#ifndef KN_CLI_OPEN_BROWSER_H
#define KN_CLI_OPEN_BROWSER_H

#include <stdbool.h>

/* Opens the address, in a window of its own where the default browser can. False: there is no screen, or no browser. */
bool kn_browser_open(const char *address);

#endif
