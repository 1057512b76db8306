"""Tables in text, spreadsheet and array files, read into memory."""
