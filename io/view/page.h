// Pages are texts with marks in them ({{title}}, {{data}}), which travel inside the program (cmake/embed.cmake).
#ifndef PB_PAGE_H
#define PB_PAGE_H

#include <stdio.h>

#include <pullback/base.h>

// Empty where a file was not there to be built in.
#ifdef PB_HAVE_ASSETS
extern const char pb_asset_three_js[], pb_asset_page_css[], pb_asset_charts_js[];
extern const char pb_asset_view_html[], pb_asset_view_js[];
extern const char pb_asset_report_html[], pb_asset_report_css[], pb_asset_report_js[];
#else
static const char pb_asset_three_js[] = "", pb_asset_page_css[] = "", pb_asset_charts_js[] = "";
static const char pb_asset_view_html[] = "", pb_asset_view_js[] = "";
static const char pb_asset_report_html[] = "", pb_asset_report_css[] = "", pb_asset_report_js[] = "";
#endif

typedef struct pbPagePart {
  const char *mark, *text;
  void (*put)(const char *text, FILE *out);  // NULL: as it is
} pbPagePart;
typedef pbStatus pbPageData(const void *user, FILE *out);

void pbPage_PutText(const char *text, FILE *out);  // as text of HTML: a name is no element
const char *pbPage_Name(const char *path);         // what is called after the last slash
// A page with its parts in the place of their marks, and its data where {{data}} stands. Other braces are the page's own.
PB_NODISCARD pbStatus pbPage_Fill(const char *page, const pbPagePart *part, size_t parts, pbPageData *put_data, const void *user,
                                  FILE *out);

#endif
