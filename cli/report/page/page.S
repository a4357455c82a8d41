/* The files of the page, as texts; the script is made of four. EBB_PAGE_HTML and so on are their paths. */
    .section .rodata
    .globl ebb_page_html, ebb_page_css, ebb_page_js
    .hidden ebb_page_html, ebb_page_css, ebb_page_js
ebb_page_html:
    .incbin EBB_PAGE_HTML
    .byte 0
ebb_page_css:
    .incbin EBB_PAGE_CSS
    .byte 0
ebb_page_js:
    .incbin EBB_PAGE_FACTS
    .incbin EBB_PAGE_CHARTS
    .incbin EBB_PAGE_CURVE
    .incbin EBB_PAGE_TABLES
    .byte 0
    .section .note.GNU-stack, "", %progbits
