"""OCR of pages without a text layer: by a vision model, Tesseract or RapidOCR."""
