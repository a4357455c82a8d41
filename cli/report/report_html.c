/* report_html.c: a report as a page: page/page.html with its style, its script and the data put in (page/page.S holds the files). */
#include <string.h>

#include "cli/report/report.h"

extern const char ebb_page_html[], ebb_page_css[], ebb_page_js[];

/* Each mark stands once in page.html. */
static const char *copy_until(const char *from, const char *mark, FILE *out)
{
    const char *at = strstr(from, mark);
    fwrite(from, 1, (size_t)(at - from), out);
    return at + strlen(mark);
}

bool ebb_report_write_html(const ebb_report_t *report, FILE *out)
{
    const char *at = copy_until(ebb_page_html, "/*STYLE*/", out);
    fputs(ebb_page_css, out);
    at = copy_until(at, "{\"DATA\":0}", out);
    if (!ebb_report_write_json(report, out))
        return false;
    at = copy_until(at, "/*SCRIPT*/", out);
    fputs(ebb_page_js, out);
    fputs(at, out);
    return !fflush(out) && !ferror(out);
}
